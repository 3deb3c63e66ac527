! Two sections, one of which takes longer.
! planted: desynchronisation 0.6
! productive: 1.0
! diagnosis: does 80 % of the work of 2 threads
! threads: 2
program main
  use planted
  implicit none
  logical :: planting
  planting = is_planted()
  !$omp parallel sections num_threads(2)
  !$omp section
  call work(merge(200, 500, planting))
  !$omp section
  call work(merge(800, 500, planting))
  !$omp end parallel sections
  call finish()
end program

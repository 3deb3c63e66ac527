! One thread creates a task for each, of which one is long.
! planted: desynchronisation 0.9
! productive: 0.8
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  planting = is_planted()
  !$omp parallel num_threads(4)
  !$omp single
  !$omp task
  call work(merge(125, 200, planting))
  !$omp end task
  !$omp task
  call work(merge(425, 200, planting))
  !$omp end task
  !$omp task
  call work(merge(125, 200, planting))
  !$omp end task
  !$omp task
  call work(merge(125, 200, planting))
  !$omp end task
  !$omp end single
  !$omp end parallel
  call finish()
end program

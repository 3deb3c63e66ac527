! A loop of unequal iterations, one for each thread.
! planted: desynchronisation 0.6
! productive: 1.0
! diagnosis: does 40 % of the work of 4 threads; no other schedule is sure to save much
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel do schedule(dynamic, 1) num_threads(4)
  do i = 0, 3
    call work(merge(100 + 100 * i, 250, planting))
  end do
  !$omp end parallel do
  call finish()
end program

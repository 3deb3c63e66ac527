! Threads that divide work by their numbers, unequally, meet at a barrier.
! planted: barrier 0.6
! productive: 1.0
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel num_threads(4) private(i)
  i = omp_get_thread_num()
  call work(merge(100 + 100 * i, 250, planting))
  !$omp barrier
  !$omp end parallel
  call finish()
end program

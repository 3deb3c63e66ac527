! Two inner regions beside each other, each with one thread that has more to do.
! planted: desynchronisation 0.6
! productive: 1.0
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  call omp_set_max_active_levels(2)
  !$omp parallel num_threads(2) private(i)
  !$omp parallel do schedule(static, 1) num_threads(2)
  do i = 0, 1
    call work(merge(100 + 300 * i, 250, planting))
  end do
  !$omp end parallel do
  !$omp end parallel
  call finish()
end program

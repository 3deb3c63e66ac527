! One thread comes late to a barrier, three times.
! planted: barrier 0.9
! productive: 1.2
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  integer :: i, number
  planting = is_planted()
  !$omp parallel num_threads(4) private(i, number)
  number = omp_get_thread_num()
  do i = 1, 3
    call work(merge(merge(175, 75, number == 2), 100, planting))
    !$omp barrier
  end do
  !$omp end parallel
  call finish()
end program

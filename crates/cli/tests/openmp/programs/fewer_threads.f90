! A region with half of the threads that another has.
! planted: serial_part 0.6
! productive: 1.4
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel do num_threads(4)
  do i = 1, 4
    call work(200)
  end do
  !$omp end parallel do
  !$omp parallel do num_threads(merge(2, 4, planting))
  do i = 1, 4
    call work(150)
  end do
  !$omp end parallel do
  call finish()
end program

! A chain of ordered blocks.
! planted: ordered 0.6
! planted: desynchronisation 0.6
! productive: 0.4
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel do schedule(static, 1) ordered num_threads(4)
  do i = 0, 3
    if (planting) then
      !$omp ordered
      call work(100)
      !$omp end ordered
    else
      call work(100)
    end if
  end do
  !$omp end parallel do
  call finish()
end program

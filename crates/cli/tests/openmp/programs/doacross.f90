! Iterations that wait for those before them.
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
  if (planting) then
    !$omp parallel do schedule(static, 1) ordered(1) num_threads(4)
    do i = 0, 3
      !$omp ordered depend(sink: i - 1)
      call work(100)
      !$omp ordered depend(source)
    end do
    !$omp end parallel do
  else
    !$omp parallel do schedule(static, 1) num_threads(4)
    do i = 0, 3
      call work(100)
    end do
    !$omp end parallel do
  end if
  call finish()
end program

! A chain of ordered blocks.
! planted: ordered 0.6
! planted: desynchronisation 0.6
! productive: 0.4
! threads: 4
program planted
  use iso_c_binding
  use omp_lib
  implicit none
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface
  character(len=16) :: word
  logical :: is_planted
  integer :: i
  call get_command_argument(1, word)
  is_planted = word /= 'without'
  !$omp parallel do schedule(static, 1) ordered num_threads(4)
  do i = 0, 3
    if (is_planted) then
      !$omp ordered
      call work(100)
      !$omp end ordered
    else
      call work(100)
    end if
  end do
  !$omp end parallel do
contains
  subroutine work(milliseconds)
    integer, intent(in) :: milliseconds
    integer(c_int) :: status
    status = usleep(int(milliseconds * 1000, c_int))
  end subroutine
end program

! A serial part before a parallel region.
! planted: serial_part 0.9
! productive: 1.1
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
  if (is_planted) call work(300)
  !$omp parallel do num_threads(4)
  do i = 0, 3
    call work(merge(200, 275, is_planted))
  end do
  !$omp end parallel do
contains
  subroutine work(milliseconds)
    integer, intent(in) :: milliseconds
    integer(c_int) :: status
    status = usleep(int(milliseconds * 1000, c_int))
  end subroutine
end program

! Two sections, one of which takes longer.
! planted: desynchronisation 0.6
! productive: 1.0
! threads: 2
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
  !$omp parallel sections num_threads(2)
  !$omp section
  call work(merge(200, 500, is_planted))
  !$omp section
  call work(merge(800, 500, is_planted))
  !$omp end parallel sections
contains
  subroutine work(milliseconds)
    integer, intent(in) :: milliseconds
    integer(c_int) :: status
    status = usleep(int(milliseconds * 1000, c_int))
  end subroutine
end program

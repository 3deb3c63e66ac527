! Threads queue for a critical block.
! planted: critical 0.6
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
  !$omp parallel num_threads(4) private(i)
  i = omp_get_thread_num()
  if (is_planted) then
    !$omp critical (queue)
    call work(100)
    !$omp end critical (queue)
  else
    call work(100)
  end if
  !$omp end parallel
contains
  subroutine work(milliseconds)
    integer, intent(in) :: milliseconds
    integer(c_int) :: status
    status = usleep(int(milliseconds * 1000, c_int))
  end subroutine
end program

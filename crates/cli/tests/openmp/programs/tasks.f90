! One thread creates a task for each, of which one is long.
! planted: desynchronisation 0.9
! productive: 0.8
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
  !$omp parallel num_threads(4)
  !$omp single
  do i = 0, 3
    !$omp task firstprivate(i)
    call work(merge(merge(425, 125, i == 1), 200, is_planted))
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
contains
  subroutine work(milliseconds)
    integer, intent(in) :: milliseconds
    integer(c_int) :: status
    status = usleep(int(milliseconds * 1000, c_int))
  end subroutine
end program

! Work of exact length. Sleeping takes no processor, so that planted times are what they are,
! however many threads share however few processors.
module planted
  use iso_c_binding
  use omp_lib, only: omp_get_max_threads
  use iso_fortran_env, only: error_unit
  implicit none
  private
  public :: work, is_planted, begin, finish
  integer(8) :: start, late = 0
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface
contains
  subroutine work(milliseconds)
    integer, intent(in) :: milliseconds
    integer(c_int) :: status
    integer(8) :: before, after, rate
    call system_clock(before, rate)
    status = usleep(int(milliseconds * 1000, c_int))
    call system_clock(after)
    after = after - before - milliseconds * rate / 1000
    !$omp atomic
    late = late + after
  end subroutine

  ! Whether to plant the loss: `without` is the negative control.
  logical function is_planted()
    character(len=16) :: word
    call get_command_argument(1, word)
    is_planted = word /= 'without'
    call begin()
  end function

  ! What counts starts here: a busy machine may take long to start the runtime.
  subroutine begin()
    call system_clock(start)
    if (omp_get_max_threads() < 1) error stop
  end subroutine

  ! Says how long it took, and what was not as planted: a busy machine wakes threads late.
  subroutine finish()
    integer(8) :: now, rate
    call system_clock(now, rate)
    write (error_unit, '(2(a, f12.6))') 'planted: elapsed ', real(now - start, 8) / rate, &
      ' late ', real(late, 8) / rate
  end subroutine
end module

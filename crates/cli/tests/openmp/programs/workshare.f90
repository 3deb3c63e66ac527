! An array of one element, which one thread sets while the others wait.
! planted: desynchronisation 0.9
! productive: 0.7
! threads: 4
module elements
  use iso_c_binding
  implicit none
  interface
    pure integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface
contains
  elemental integer(c_int) function slept(milliseconds)
    integer(c_int), intent(in) :: milliseconds
    slept = usleep(1000 * milliseconds)
  end function
end module
program main
  use elements
  use planted
  implicit none
  integer(c_int) :: status(1)
  logical :: planting
  integer :: i
  planting = is_planted()
  status = 0
  !$omp parallel num_threads(4)
  !$omp workshare
  status = slept(merge([300_c_int], [0_c_int], planting))
  !$omp end workshare
  !$omp do schedule(dynamic, 1)
  do i = 1, 4
    call work(merge(100, 175, planting))
  end do
  !$omp end do
  !$omp end parallel
  if (any(status /= 0)) error stop
  call finish()
end program

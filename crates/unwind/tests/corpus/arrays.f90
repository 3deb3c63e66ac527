! What Fortran adds to frames: automatic arrays, array temporaries, internal procedures, recursion.
module inner
  implicit none
contains
  function internal(value) result(total)
    real(8), intent(in) :: value
    real(8) :: total
    total = apply(twice) + apply(square)
  contains
    function apply(f) result(r)
      interface
        function f(x) result(y)
          real(8), intent(in) :: x
          real(8) :: y
        end function
      end interface
      real(8) :: r
      r = f(value)
    end function
    function twice(x) result(y)
      real(8), intent(in) :: x
      real(8) :: y
      y = 2 * x + value
    end function
    function square(x) result(y)
      real(8), intent(in) :: x
      real(8) :: y
      y = x * x - value
    end function
  end function
end module
program arrays
  use inner
  implicit none
  integer :: i
  real(8) :: sum
  sum = 0
  do i = 1, 5
    sum = sum + automatic(i * 10) + internal(real(i, 8)) + descend(i)
  end do
  print *, sum, words("one", i)
contains
  function automatic(count) result(total)
    integer, intent(in) :: count
    real(8) :: total, own(count), matrix(count, 3)
    integer :: k
    own = [(real(k, 8), k = 1, count)]
    matrix = spread(own, 2, 3)
    total = dot_product(matmul(own, matrix), [1d0, 2d0, 3d0]) + maxval(own(count:1:-1))
  end function
  recursive function descend(depth) result(total)
    integer, intent(in) :: depth
    real(8) :: total
    if (depth == 0) then
      total = 1
    else
      total = depth * descend(depth - 1)
    end if
  end function
  function words(first, number) result(text)
    character(*), intent(in) :: first
    integer, intent(in) :: number
    character(:), allocatable :: text
    character(20) :: own
    write (own, '(i0)') number
    text = first // " and " // trim(own)
  end function
end program

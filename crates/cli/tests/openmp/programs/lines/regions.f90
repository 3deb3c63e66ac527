! Regions of a program whose calls gfortran gives the lines of what stands before. A line that ends with
! "at:" and kinds has a construct of each.
program regions
  implicit none
  integer, parameter :: count = 200000
  real(8), save :: a(count), b(count)
  real(8) :: total
  integer :: i, round

  total = 0
  a = 1
  do round = 1, 3

    !$omp parallel do schedule(dynamic, 10000) ! at: parallel region, loop
    do i = 1, count
      b(i) = sqrt(a(i)) + i
    end do
    !$omp end parallel do
  end do

  a = b

  !$omp parallel reduction(+: total) ! at: parallel region
  total = total + sum(b(1:10))
  !$omp end parallel

  b(1) = total

  !$omp parallel do schedule(guided) ! at: parallel region, loop
  do i = 1, count
    a(i) = b(i) * 2
  end do
  !$omp end parallel do
  call later(a)
  print *, total > 0, sum(a) > 0
contains
  subroutine later(values)
    real(8), intent(inout) :: values(:)
    integer :: k
    values(1) = 3

    !$omp parallel do schedule(dynamic) ! at: parallel region, loop
    do k = 1, count
      values(k) = values(k) + k
    end do
    !$omp end parallel do
  end subroutine
end program

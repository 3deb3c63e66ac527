! Whole-array arithmetic, allocation, strings, internal and sequential files, recursion.
! flags: -O2
program arrays
    implicit none
    real(8), allocatable :: a(:, :), b(:, :), c(:, :)
    character(len=40) :: line
    integer :: i, j, unit, total
    allocate (a(60, 60), b(60, 60))
    do j = 1, 60
        do i = 1, 60
            a(i, j) = 1.0d0 / (i + j)
            b(i, j) = mod(i * j, 7)
        end do
    end do
    c = matmul(a, transpose(b))
    write (*, '(f14.8, f14.8, i5)') sum(c), maxval(c(:, ::3)), count(b > 3)
    write (line, '(a, i0, a, es12.5)') 'cell ', 17, ' holds ', c(17, 3)
    print '(a)', trim(line)
    open (newunit=unit, status='scratch', form='formatted')
    do i = 1, 100
        write (unit, *) i
    end do
    rewind (unit)
    total = 0
    do i = 1, 100
        read (unit, *) j
        total = total + j
    end do
    close (unit)
    print *, total, fibonacci(20)
contains
    recursive function fibonacci(n) result(value)
        integer, intent(in) :: n
        integer :: value
        if (n < 2) then
            value = n
        else
            value = fibonacci(n - 1) + fibonacci(n - 2)
        end if
    end function
end program

! OpenMP in Fortran: loops with schedules, reductions, private arrays, critical sections.
! flags: -O2 -fopenmp
! libraries: -fopenmp
program openmp_loops
    use omp_lib
    implicit none
    integer, parameter :: n = 20000
    real(8), save :: x(n)
    real(8) :: total
    integer :: i, inside, step
    call omp_set_num_threads(3)
    total = 0
    inside = 0
    do step = 1, 5
        !$omp parallel do schedule(dynamic, 100)
        do i = 1, n
            x(i) = step * mod(i, 13)
        end do
        !$omp end parallel do
        !$omp parallel do reduction(+:total) schedule(static)
        do i = 1, n
            total = total + x(i)
        end do
        !$omp end parallel do
    end do
    !$omp parallel
    !$omp critical
    inside = inside + 1
    !$omp end critical
    !$omp barrier
    !$omp single
    inside = inside * 10
    !$omp end single
    !$omp end parallel
    print '(f14.1, i5)', total, inside
end program

! A sum over a loop in Fortran: each thread's own part, or one variable for all.
! flags: -fopenmp
module totals
    implicit none
    integer :: total = 0
end module
program openmp_reduction
    use totals
    implicit none
    integer :: index
#ifdef RACY
!$omp parallel do num_threads(2) ! race: total
#else
!$omp parallel do num_threads(2) reduction(+ : total)
#endif
    do index = 1, 64
        total = total + index ! race: total
    end do
    if (total == 1) stop 1
end program

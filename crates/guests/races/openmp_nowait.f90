! The second of two loops in Fortran reads what other threads wrote in the first, behind its end or not.
! flags: -fopenmp
module steps
    implicit none
    integer, parameter :: size = 64
    real(8), volatile :: from(size) = 0, to(size) = 0
end module
program openmp_nowait
    use steps
    implicit none
    integer :: index
!$omp parallel num_threads(2) private(index)
!$omp do schedule(static)
    do index = 1, size
        from(index) = index ! race: from
    end do
#ifdef RACY
!$omp end do nowait
#else
!$omp end do
#endif
!$omp do schedule(static)
    do index = 1, size
        to(index) = from(size + 1 - index) ! race: from
    end do
!$omp end parallel
    if (to(1) == 7) stop 1
end program

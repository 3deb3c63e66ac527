! Arrays of Fortran in workshare: a statement ends before the next begins, or is begun beside it.
! flags: -fopenmp
module arrays
    implicit none
    integer, parameter :: size = 32
    real(8), volatile :: left(size) = 1, right(size) = 2
end module
program openmp_workshare
    use arrays
    implicit none
    integer :: index
!$omp parallel num_threads(2) private(index)
#ifdef RACY
!$omp do schedule(static)
    do index = 1, size
        left(index) = left(index) + 1 ! race: left
    end do
!$omp end do nowait
!$omp workshare ! race: left
    right = left(size:1:-1) ! race: left
!$omp end workshare
#else
!$omp workshare
    left = left + 1
    right = left(size:1:-1)
!$omp end workshare
#endif
!$omp end parallel
    if (right(1) == 7) stop 1
end program

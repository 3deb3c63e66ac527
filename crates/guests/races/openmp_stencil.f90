! Sweeps over a field of Fortran's: from one array to the other, or in place, where threads meet at
! the border of their halves.
! flags: -fopenmp
module fields
    implicit none
    integer, parameter :: size = 64
    real(8), volatile :: old(0:size + 1) = 1, new(0:size + 1) = 1
end module
program openmp_stencil
    use fields
    implicit none
    integer :: index, sweep
!$omp parallel num_threads(2) private(sweep, index)
    do sweep = 1, 4
#ifdef RACY
!$omp do schedule(static)
        do index = 1, size
            old(index) = (old(index - 1) + old(index + 1)) / 2 ! race: old
        end do
#else
!$omp do schedule(static)
        do index = 1, size
            new(index) = (old(index - 1) + old(index + 1)) / 2
        end do
!$omp do schedule(static)
        do index = 1, size
            old(index) = new(index)
        end do
#endif
    end do
!$omp end parallel
    if (old(1) == 7) stop 1
end program

! Each thread of a Fortran program reads what its neighbour wrote before the barrier.
! flags: -fopenmp
module halves
    implicit none
    real(8) :: written(2) = 0, seen(2) = 0
end module
program openmp_barrier
    use halves
    use omp_lib
    implicit none
    integer :: me
!$omp parallel num_threads(2) private(me)
    me = omp_get_thread_num() + 1
    written(me) = me ! race: written
#ifndef RACY
!$omp barrier
#endif
    seen(me) = written(3 - me) ! race: written
!$omp end parallel
    if (seen(1) == 7) stop 1
end program

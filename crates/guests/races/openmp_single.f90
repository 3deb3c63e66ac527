! What one thread of a Fortran program sets in single, all read: behind its end, or not.
! flags: -fopenmp
module settings
    implicit none
    real(8), volatile :: setting = 0, seen(2) = 0
end module
program openmp_single
    use settings
    use omp_lib
    implicit none
!$omp parallel num_threads(2)
!$omp single
    setting = 3 ! race: setting
#ifdef RACY
!$omp end single nowait
#else
!$omp end single
#endif
    seen(omp_get_thread_num() + 1) = setting ! race: setting
!$omp end parallel
    if (seen(1) == 7) stop 1
end program

! A lock of OpenMP in Fortran around a common block's member.
! flags: -fopenmp
program openmp_lock ! race: shared_
    use omp_lib
    implicit none
    integer(omp_lock_kind) :: lock
    integer :: round, member
    common /shared/ member
    member = 0
    call omp_init_lock(lock)
!$omp parallel num_threads(2) private(round)
    do round = 1, 20
#ifndef RACY
        call omp_set_lock(lock)
#endif
        member = member + 1 ! race: shared_
#ifndef RACY
        call omp_unset_lock(lock)
#endif
    end do
!$omp end parallel
    call omp_destroy_lock(lock)
    if (member == 1) stop 1
end program

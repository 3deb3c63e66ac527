! A scratch variable of a loop in Fortran: one for each thread, or by mistake one for all.
! flags: -fopenmp
module scratch
    implicit none
    integer, volatile :: scratch_value = 0
    integer :: results(64) = 0
end module
program openmp_private
    use scratch
    implicit none
    integer :: index, mine
#ifdef RACY
!$omp parallel do num_threads(2) schedule(static)
    do index = 1, 64
        scratch_value = index * 2 ! race: scratch_value
        results(index) = scratch_value + 1 ! race: scratch_value
    end do
#else
!$omp parallel do num_threads(2) schedule(static) private(mine)
    do index = 1, 64
        mine = index * 2
        results(index) = mine + 1
    end do
#endif
    if (results(1) == 7) stop 1
end program

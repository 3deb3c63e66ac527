! A counter in a critical section of Fortran; the racy twin names another section in one of the threads.
! flags: -fopenmp
module counters
    implicit none
    integer, volatile :: counter = 0
end module
program openmp_critical
    use counters
    use omp_lib
    implicit none
    integer :: round
!$omp parallel num_threads(2) private(round)
    do round = 1, 20
        if (omp_get_thread_num() == 0) then
!$omp critical (first)
            counter = counter + 1 ! race: counter
!$omp end critical (first)
        else
#ifdef RACY
!$omp critical (second)
            counter = counter + 1 ! race: counter
!$omp end critical (second)
#else
!$omp critical (first)
            counter = counter + 1
!$omp end critical (first)
#endif
        end if
    end do
!$omp end parallel
    if (counter == 1) stop 1
end program

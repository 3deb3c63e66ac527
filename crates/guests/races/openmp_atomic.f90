! A counter of Fortran that threads add to, atomically or not.
! flags: -fopenmp
module counters
    implicit none
    integer(8) :: counter = 0
end module
program openmp_atomic
    use counters
    implicit none
    integer :: round
!$omp parallel num_threads(2) private(round)
    do round = 1, 20
#ifndef RACY
!$omp atomic update
#endif
        counter = counter + round ! race: counter
    end do
!$omp end parallel
    if (counter == 1) stop 1
end program

! One task reads what another has written; the racy twin's reader does not depend on it.
! flags: -fopenmp
module shared_numbers
  integer(8) :: value = 0, seen = 0
end module
program openmp_task
  use shared_numbers
  !$omp parallel num_threads(2)
  !$omp single
  !$omp task depend(out: value)
  value = 1 ! race: value
  !$omp end task
#ifdef RACY
  !$omp task
#else
  !$omp task depend(in: value)
#endif
  seen = value ! race: value
  !$omp end task
  !$omp end single
  !$omp end parallel
  if (seen == 7) stop 1
end program

! Threads queue for a lock.
! planted: lock 0.6
! planted: barrier 0.6
! productive: 0.4
! diagnosis gfortran: at the lock lock (0x
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  block
    integer(omp_lock_kind), save :: lock
    call omp_init_lock(lock)
    !$omp parallel num_threads(4) private(i)
    i = omp_get_thread_num()
    if (planting) call omp_set_lock(lock)
    call work(100)
    if (planting) call omp_unset_lock(lock)
    !$omp barrier
    !$omp end parallel
  end block
  call finish()
end program

! A block of the first thread, for which the others wait at a barrier.
! planted: barrier 0.9
! productive: 0.3
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  planting = is_planted()
  !$omp parallel num_threads(4)
  if (planting) then
    !$omp master
    call work(300)
    !$omp end master
  else
    call work(merge(0, 75, omp_get_thread_num() < 0))
  end if
  !$omp barrier
  !$omp end parallel
  call finish()
end program

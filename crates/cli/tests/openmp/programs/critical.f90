! Threads queue for a critical block.
! planted: critical 0.6
! planted: desynchronisation 0.6
! productive: 0.4
! diagnosis: in all (4 times
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel num_threads(4) private(i)
  i = omp_get_thread_num()
  if (planting) then
    !$omp critical (queue)
    call work(100)
    !$omp end critical (queue)
  else
    call work(100)
  end if
  !$omp end parallel
  call finish()
end program

! A loop whose first iterations take longest, handed out in pieces that are too large; then in
! those that the diagnosis names.
! planted: desynchronisation 0.72
! productive: 0.56
! diagnosis: does 57 % of the work of 4 threads; schedule(dynamic,1) may save about 0.1
! threads: 4
program main
  use planted
  use omp_lib
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  call omp_set_schedule(omp_sched_dynamic, merge(8, 1, planting))
  !$omp parallel do schedule(runtime) num_threads(4)
  do i = 0, 31
    call work(merge(40, 10, i < 8))
  end do
  !$omp end parallel do
  call finish()
end program

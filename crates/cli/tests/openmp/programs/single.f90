! A block that one thread executes while the others wait.
! planted: desynchronisation 0.9
! productive: 0.7
! diagnosis: one thread executes the single block at single.f90
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel num_threads(4) private(i)
  if (planting) then
    !$omp single
    call work(300)
    !$omp end single
  end if
  !$omp do schedule(dynamic, 1)
  do i = 1, 4
    call work(merge(100, 175, planting))
  end do
  !$omp end do
  !$omp end parallel
  call finish()
end program

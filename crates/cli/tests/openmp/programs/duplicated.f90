! Work that every thread of a region repeats.
! planted: duplicated 0.6
! productive: 0.6
! diagnosis: do the same work outside worksharing constructs, 0.2
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel num_threads(4)
  if (planting) call work(200)
  !$omp do schedule(dynamic, 1)
  do i = 0, 3
    call work(merge(100, 150, planting))
  end do
  !$omp end do
  !$omp end parallel
  call finish()
end program

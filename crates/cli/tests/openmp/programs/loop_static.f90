! A loop with a static schedule after another in the same region.
! planted: desynchronisation 0.6
! productive: 1.4
! diagnosis gfortran: the runtime is not told how many iterations there are
! diagnosis flang: no other schedule is sure to save much
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel num_threads(4)
  !$omp do
  do i = 1, 8
    call work(50)
  end do
  !$omp end do
  !$omp do schedule(static, 1)
  do i = 0, 3
    call work(merge(100 + 100 * i, 250, planting))
  end do
  !$omp end do
  !$omp end parallel
  call finish()
end program

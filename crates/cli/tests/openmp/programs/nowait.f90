! Two loops whose inequalities make up for each other, because the first does not wait; then
! the same with waiting.
! planted: desynchronisation 0.6
! productive: 2.0
! threads: 4
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp parallel num_threads(4) private(i)
  !$omp do schedule(static, 1)
  do i = 0, 3
    call work(50 + i * 50)
  end do
  !$omp end do nowait
  !$omp do schedule(static, 1)
  do i = 0, 3
    call work(200 - i * 50)
  end do
  !$omp end do
  !$omp do schedule(static, 1)
  do i = 0, 3
    call work(merge(50 + i * 50, 125, planting))
  end do
  !$omp end do
  !$omp do schedule(static, 1)
  do i = 0, 3
    call work(merge(200 - i * 50, 125, planting))
  end do
  !$omp end do
  !$omp end parallel
  call finish()
end program

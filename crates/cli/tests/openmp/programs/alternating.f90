! In each passage one thread has more to do than the other, but not always the same.
! planted: desynchronisation 0.4
! productive: 0.8
! diagnosis: which thread comes last changes (of 4 passages, thread 0 in 2, thread 1 in 2)
! threads: 2
program main
  use planted
  implicit none
  logical :: planting
  integer :: i, passage
  planting = is_planted()
  do passage = 1, 4
    !$omp parallel do schedule(static, 1) num_threads(2)
    do i = 0, 1
      call work(merge(merge(150, 50, i == mod(passage, 2)), 100, planting))
    end do
    !$omp end parallel do
  end do
  call finish()
end program

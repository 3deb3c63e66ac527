! A thread waits for a task that another executes, in one way or the other.
! planted: tasks 0.4
! productive: 0.8
! threads: 2
program main
  use planted
  implicit none
  logical :: planting
  planting = is_planted()
  !$omp parallel num_threads(2)
  !$omp single
  !$omp task
  call work(merge(300, 200, planting))
  !$omp end task
  call work(merge(100, 200, planting))
  !$omp taskwait
  !$omp taskgroup
  !$omp task
  call work(merge(300, 200, planting))
  !$omp end task
  call work(merge(100, 200, planting))
  !$omp end taskgroup
  !$omp end single
  !$omp end parallel
  call finish()
end program

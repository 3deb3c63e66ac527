! Two teams, one of which has more to do.
! planted: desynchronisation 0.3
! productive: 0.5
! threads: 2
! only: flang
! GNU's runtime lets one thread execute all teams.
program main
  use planted
  implicit none
  logical :: planting
  integer :: i
  planting = is_planted()
  !$omp teams distribute num_teams(2) thread_limit(1)
  do i = 0, 1
    call work(merge(100 + 300 * i, 250, planting))
  end do
  !$omp end teams distribute
  call finish()
end program

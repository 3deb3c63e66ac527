! Every construct once or a few times; two threads.
! seen: gfortran 6 parallel region
! seen: gfortran 6 loop
! seen: gfortran 4 ordered
! seen: gfortran 2 critical
! seen: gfortran 2 lock
! seen: gfortran 2 barrier
! seen: gfortran 1 single
! seen: gfortran 2 sections
! seen: gfortran 1 taskwait
! seen: gfortran 5 task
! seen: gfortran 1 taskgroup
! counts: 12 critical atomic
! counts: 2 critical name
! counts: 4 ordered
! counts: 2 section
! counts: 1 master
! counts: 2 single
! counts: 2 sections
! counts: 2 workshare
! counts: 2 flush
! counts: 5 task
! counts: 1 taskwait
! counts: 1 taskgroup
! counts: 12 function body step
! counts: 0 function body twice
! counts: 12 function call step
! counts: 2 function call @set_lock_lock
! counts: 14 sequential loop
! counts: 10 omp loop
! counts: 6 parallel
module kinds
  implicit none
  integer, parameter :: dp = kind(1d0)
  type :: point
    real(dp) :: x
  contains
    procedure :: norm
  end type point
contains
  real(dp) function norm(this)
    class(point), intent(in) :: this
    norm = abs(this%x)
  end function
  pure integer function twice(i)
    integer, intent(in) :: i
    twice = 2 * i
  end function
  subroutine step(a, n)
    integer, intent(in) :: n
    real(dp), intent(inout) :: a(n)
    integer :: i, j
    if (n < 1) return
    do i = 1, n
      do j = 1, 2
        a(i) = a(i) + twice(j) * 0.5_dp
      end do
    end do
    if (a(1) > 1e9_dp) then
      return
    end if
  end subroutine step
end module

program every_construct
  use kinds
  use omp_lib
  implicit none
  integer :: i, j, total, named, captured, k
  real(dp) :: a(10), square, z
  real(dp) :: grid(4, 4)
  integer(omp_lock_kind) :: lock
  square(z) = z * z
  a = 0
  total = 0; a(8) = square(2d0)
  captured = 0
  named = 0
  grid = 0
  call omp_init_lock(lock)
  time: do k = 1, 2
    !$omp parallel do collapse(2) default(none) shared(grid, k) private(i, j)
    do i = 1, 4
      do j = 1, 4
        grid(i, j) = grid(i, j) + k
      end do
    end do
    !$omp end parallel do
  end do time
  !$unspool interval main
  !$omp parallel private(i) shared(total) num_threads(2)
  !$omp do
  do i = 1, 10
    !$omp atomic
    total = total + 1
    if (i > 3) call step(a(i:i), 1)
  end do
  !$omp do schedule(dynamic) ordered
  do 10 i = 1, 4
    !$omp ordered
    a(1) = a(1) + i
    !$omp end ordered
10 continue
  !$omp atomic capture
  captured = total
  total = total + 1
  !$omp end atomic
  !$omp master
  do i = 1, 3; a(2) = a(2) + i; end do
  !$omp end master
  !$omp barrier
  !$omp single
  do i = 1, 4
    !$omp task firstprivate(i)
    call step(a(i:i), 1)
    !$omp end task
  end do
  !$omp taskwait
  !$omp taskgroup
  !$omp task
  call step(a(5:5), 1)
  !$omp end task
  !$omp end taskgroup
  !$omp end single
  !$omp sections
  !$omp section
  a(6) = 1
  !$omp section
  a(7) = 1
  !$omp end sections
  !$omp workshare
  a = a + 1
  !$omp end workshare
  call omp_set_lock(lock)
  total = total + 1
  call omp_unset_lock(lock)
  !$omp critical (name)
  named = named + 1
  !$omp end critical (name)
  !$omp flush
  !$omp simd
  do i = 1, 10
    a(i) = a(i) + 0
  end do
  !$omp do simd
  do i = 1, 10
    a(i) = a(i) + 0
  end do
  !$omp end parallel
  !$unspool end interval
  if (total < 0) call omp_destroy_lock(lock)
  print *, 'total', total, named, 'it''s; "done"', sum(a)
end program

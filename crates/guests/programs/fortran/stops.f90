! Ends with an error code and its message on standard error.
! flags: -O2 -fno-backtrace
! ending: exit 3
program stops
    implicit none
    print *, 'before'
    error stop 3
end program

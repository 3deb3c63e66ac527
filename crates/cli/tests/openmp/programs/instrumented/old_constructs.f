C     Fixed form: labelled and shared ends of loops, statement functions, labels in the way.
C     counts: 2 sequential loop
C     counts: 2 function body sub
C     counts: 2 function call sub
C     counts: 2 critical atomic
C     counts: 2 omp loop
      PROGRAM OLD
      INTEGER I, J, N
      REAL A(10), F, X
      COMMON /BLK/ A
      F(X) = X + 1
      N = 10
      DO 20 I = 1, N
      DO 20 J = 1, 2
   20 A(I) = F(REAL(I))
c$omp parallel do private(i)
c$omp& schedule(static)
      DO 30 I = 1, N
        IF (I .GT. 100000) CALL SUB(A, N, 'a long string that, with all that stands be
     1fore it, goes on')
   30 CONTINUE
      DO I = 1, 2
        CALL SUB(A, N, 'x')
      END DO
      WRITE (*,*) A(1)
      IF (A(1) .LT. 0) GOTO 99
   99 END
      SUBROUTINE SUB(A, N, S)
      INTEGER N
      REAL A(N)
      CHARACTER*(*) S
      IF (N .LT. 0) RETURN
!$OMP ATOMIC
      A(1) = A(1) + 1
      IF (N .EQ. 3) GOTO 50
      RETURN
   50 A(2) = 1
   60 RETURN
      END

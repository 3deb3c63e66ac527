(* Threads under a master lock, exceptions from deep recursion, stack overflow found by a handler,
   a compacting collector, and signals. *)
let () =
  let module S = Map.Make (String) in
  let map = ref S.empty in
  for i = 1 to 20000 do map := S.add (string_of_int (i * 7919 mod 10007)) i !map done;
  Printf.printf "%d %d\n" (S.cardinal !map) (S.fold (fun _ v s -> v + s) !map 0);
  let mutex = Mutex.create () and total = ref 0 in
  let work n = for i = 1 to 2000 do
      let part = List.fold_left (+) 0 (List.init 20 (fun j -> (i * j) mod n)) in
      Mutex.lock mutex; total := !total + part; Mutex.unlock mutex
    done in
  List.iter Thread.join (List.map (Thread.create work) [3; 5; 7; 11]);
  Printf.printf "%d\n" !total;
  let rec deep n = if n = 0 then raise Not_found else 1 + deep (n - 1) in
  (try ignore (deep 20000) with Not_found -> print_endline "from below");
  (try print_int (1 / (Array.length Sys.argv - 1)) with Division_by_zero -> print_endline "division");
  let rec endless n = 1 + endless (n + 1) in
  (try ignore (endless 0) with Stack_overflow -> print_endline "overflow");
  Gc.compact ();
  let ticks = ref 0 in
  Sys.set_signal Sys.sigalrm (Sys.Signal_handle (fun _ -> incr ticks));
  ignore (Unix.setitimer Unix.ITIMER_REAL { Unix.it_interval = 0.001; it_value = 0.001 });
  let cells = ref [] in
  while !ticks < 10 do cells := List.init 1000 (fun i -> Some i) done;
  ignore (Unix.setitimer Unix.ITIMER_REAL { Unix.it_interval = 0.; it_value = 0. });
  Printf.printf "%d\n" (List.length !cells);
  exit 5

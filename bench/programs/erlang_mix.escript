#!/usr/bin/env escript
%% -*- erlang -*-
%% Processes that send messages round a ring, a table that all of them write, and calls and
%% lists in compiled code. Argument: number of rounds.
-mode(compile).

main([Rounds]) ->
    Table = ets:new(table, [public, set]),
    Sums = [round(Table, N) || N <- lists:seq(1, list_to_integer(Rounds))],
    io:format("erlang_mix ~p ~p~n", [lists:sum(Sums) rem 1000003, ets:info(Table, size)]).

round(Table, N) ->
    [ets:insert(Table, {I, {N, I * I}}) || I <- lists:seq(1, 20000)],
    Found = lists:sum([element(2, element(2, hd(ets:lookup(Table, I)))) || I <- lists:seq(1, 20000, 3)]),
    Words = lists:sort([integer_to_list(I * 7919 rem 10007) || I <- lists:seq(1, 10000)]),
    (Found + fib(22) + ring(100, 50) + length(lists:flatten(Words))) rem 1000003.

fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).

ring(Size, Laps) ->
    Self = self(),
    First = lists:foldl(fun(_, Next) -> spawn_link(fun() -> pass(Next) end) end, Self, lists:seq(1, Size)),
    lists:foreach(fun(Lap) -> First ! {lap, Lap}, receive {lap, Lap} -> ok end end, lists:seq(1, Laps)),
    First ! stop,
    receive stop -> Laps end.

pass(Next) ->
    receive
        stop -> Next ! stop;
        Message -> Next ! Message, pass(Next)
    end.

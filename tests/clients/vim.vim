" What a scenario of a test needs in Vim: to wait, to remember what it found out, and to end.
let g:answers = {}

function! WaitFor(what, Holds) abort
  for round in range(1500)
    if a:Holds()
      return
    endif
    sleep 20m
  endfor
  throw 'waited in vain for ' . a:what
endfunction

function! Findings() abort
  return ale#engine#GetLoclist(bufnr(''))
endfunction

function! Fail() abort
  call writefile([v:exception . ' at ' . v:throwpoint], '/dev/stderr')
  cquit 1
endfunction

function! Finish() abort
  call writefile([json_encode(g:answers)], $HOME . '/answers.json')
  qall!
endfunction

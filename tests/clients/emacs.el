;;; emacs.el --- What the scenarios of tests say to an Emacs without a terminal  -*- lexical-binding: t -*-

(require 'json)
(require 'cl-lib)
(require 'package)
(package-activate-all)  ; Debian keeps Eglot for Emacs 28 in a package
(require 'eglot)
(setq eglot-sync-connect t
      last-nonmenu-event ?a  ; a list would ask for a menu of the window system
      coding-system-for-read 'utf-8-unix
      make-backup-files nil
      create-lockfiles nil
      auto-save-default nil)

(defvar answers nil "What a scenario found out.")

(defun answer (name value)
  "Remember VALUE under NAME for the test."
  (push (cons name value) answers))

(defun wait-for (what holds)
  "Return the first true value of HOLDS; an error names WHAT after half a minute.
Eglot says what has changed when Emacs is idle, which it never is without a terminal."
  (let ((end (+ (float-time) 30)) value)
    (while (not (setq value (funcall holds)))
      (eglot--signal-textDocument/didChange)
      (when (> (float-time) end)
        (error "Waited in vain for %s" what))
      (accept-process-output nil 0.05))
    value))

(defun open (name)
  "Visit the file NAME; what Emacs does after a command starts the server."
  (find-file name)
  (run-hooks 'post-command-hook))

(defun findings ()
  "The text under each diagnostic."
  (sort (mapcar (lambda (one)
                  (buffer-substring-no-properties (flymake-diagnostic-beg one) (flymake-diagnostic-end one)))
                (flymake-diagnostics))
        #'string<))

(defun leave ()
  "Write the answers, and end the server."
  (with-temp-file (expand-file-name "~/answers.json")
    (set-buffer-file-coding-system 'utf-8-unix)
    (insert (json-encode answers)))
  (when (eglot-current-server)
    (eglot-shutdown (eglot-current-server))))

"""The process that embeds with a GGUF model: texts in, unit vectors out, behind everything else.

reader thread    pipe -> inbox; stops a text that is no longer waited for, ends the process with its
                 parent
main thread      load, then one text after the other
"""

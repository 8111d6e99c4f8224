"""Define the sections of each prompt. Every recipe passes them to `rlm.prompts.assembly.assembler`."""

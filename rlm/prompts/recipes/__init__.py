"""What each prompt is made of. Every recipe hands its sections to `rlm.prompts.assembly.assembler`."""

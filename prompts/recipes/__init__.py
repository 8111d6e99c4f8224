"""What each prompt is made of. Every recipe hands its sections to `prompts.assembler`."""

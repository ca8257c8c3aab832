/* The fat binary as read-only data; SPILLWAY_CALIBRATION_FATBIN is its path, given by CMake. Driver API wants 8-byte alignment. */
        .section .rodata
        .balign 64
        .globl  spillway_calibration_image_begin
        .hidden spillway_calibration_image_begin
        .globl  spillway_calibration_image_end
        .hidden spillway_calibration_image_end
spillway_calibration_image_begin:
        .incbin SPILLWAY_CALIBRATION_FATBIN
spillway_calibration_image_end:
        .byte 0
        .section .note.GNU-stack,"",%progbits
